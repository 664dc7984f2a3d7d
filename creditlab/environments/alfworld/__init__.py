"""ALFWorld"""
